# gnuplot 5.4 or later
reset
set encoding utf8
set terminal pngcairo size 1500,980 font 'DejaVu Sans,13' background '#ffffff' noenhanced
set output 'out.png'
set border 3 linecolor '#666666' linewidth 1
set tics nomirror out scale 0.5 textcolor '#222222'
set grid y linecolor '#DDDDDD' linewidth 1 linetype 1
set style fill solid 1.0 noborder
$data0_0 << EOD
1 400
4 100
EOD
$data0_1 << EOD
1 500
EOD
$data1_0 << EOD
1 100
4 100
EOD
$data1_1 << EOD
1 100
EOD
$data2_0 << EOD
1 0.25
4 1
EOD
$data2_1 << EOD
1 0.2
EOD
$data3_0 << EOD
1 1
4 1
EOD
$data3_1 << EOD
1 1
EOD
set multiplot
set label 1 'tiny, 65,536 tokens, causal, on toy' at screen 0.02,0.963265 left font ',17' textcolor '#222222'
set label 2 'Fastest that fits: cp 4, overlap yes, 100.0 ms a step (3 of 4 points ran)' at screen 0.02,0.928571 left font ',13' textcolor '#666666'
set key at screen 0.02,0.910204 left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '#222222'
set xrange [0:1]
set yrange [0:1]
set lmargin at screen 0.02
set rmargin at screen 0.98
unset border
unset tics
set key maxcols 7
plot NaN notitle, \
    keyentry with linespoints linecolor '#0072B2' linewidth 2.2 pointtype 7 pointsize 1.1 dashtype 1 title 'overlap yes', \
    keyentry with linespoints linecolor '#D55E00' linewidth 2.2 pointtype 5 pointsize 1.1 dashtype 1 title 'overlap no', \
    keyentry with lines linecolor '#999999' linewidth 1.5 dashtype 2 title 'ideal: step time falls as 1 / cp'
unset label 1
unset label 2
set border 3
set xtics
set ytics
set tics nomirror out scale 0.5 textcolor '#222222'
unset key
set logscale x 2
set xrange [0.933032992:4.28709385]
set xtics ('1' 1, '4' 4)
set xlabel 'parallel.cp'
set lmargin at screen 0.05
set rmargin at screen 0.485
set tmargin at screen 0.806122
set bmargin at screen 0.521122
set label 3 'Step time (ms)' at graph 0, graph 1 offset 0,1.2 left font ',14' textcolor '#222222'
set logscale y
set format y '%g'
set yrange [76.9230769:650]
set ytics (100, 200, 500)
plot 400/x with lines linecolor '#999999' linewidth 1.5 dashtype 2 notitle, \
    $data0_0 using 1:2 with linespoints linecolor '#0072B2' linewidth 2.2 pointtype 7 pointsize 1.1 dashtype 1 notitle, \
    $data0_1 using 1:2 with linespoints linecolor '#D55E00' linewidth 2.2 pointtype 5 pointsize 1.1 dashtype 1 notitle
unset label 1
unset label 2
set lmargin at screen 0.55
set rmargin at screen 0.985
set tmargin at screen 0.806122
set bmargin at screen 0.521122
set label 3 'Parallel efficiency (%)' at graph 0, graph 1 offset 0,1.2 left font ',14' textcolor '#222222'
unset logscale y
set yrange [0:112]
set ytics 0,20
set format y '%.0f'
plot $data1_0 using 1:2 with linespoints linecolor '#0072B2' linewidth 2.2 pointtype 7 pointsize 1.1 dashtype 1 notitle, \
    $data1_1 using 1:2 with linespoints linecolor '#D55E00' linewidth 2.2 pointtype 5 pointsize 1.1 dashtype 1 notitle
unset label 1
unset label 2
set lmargin at screen 0.05
set rmargin at screen 0.485
set tmargin at screen 0.39
set bmargin at screen 0.105
set label 3 'Exposed communication (% of the step)' at graph 0, graph 1 offset 0,1.2 left font ',14' textcolor '#222222'
unset logscale y
set yrange [0:5]
set ytics 0,1
set format y '%.0f'
plot $data2_0 using 1:2 with linespoints linecolor '#0072B2' linewidth 2.2 pointtype 7 pointsize 1.1 dashtype 1 notitle, \
    $data2_1 using 1:2 with linespoints linecolor '#D55E00' linewidth 2.2 pointtype 5 pointsize 1.1 dashtype 1 notitle
unset label 1
unset label 2
set lmargin at screen 0.55
set rmargin at screen 0.985
set tmargin at screen 0.39
set bmargin at screen 0.105
set label 3 'Peak memory per rank (MiB)' at graph 0, graph 1 offset 0,1.2 left font ',14' textcolor '#222222'
unset logscale y
set yrange [0:1.12]
set ytics 0,0.2
set format y '%.1f'
plot $data3_0 using 1:2 with linespoints linecolor '#0072B2' linewidth 2.2 pointtype 7 pointsize 1.1 dashtype 1 notitle, \
    $data3_1 using 1:2 with linespoints linecolor '#D55E00' linewidth 2.2 pointtype 5 pointsize 1.1 dashtype 1 notitle
unset label 1
unset label 2
unset multiplot
unset output
