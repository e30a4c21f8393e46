# gnuplot 5.4 or later
reset
set encoding utf8
set terminal svg dynamic size 1500,1050 font 'DejaVu Sans,15' background '#ffffff' noenhanced
set output 'out.svg'
set border 3 linecolor '#666666' linewidth 1
set tics nomirror out scale 0.5 textcolor '#222222'
set grid y linecolor '#DDDDDD' linewidth 1 linetype 1
set style fill solid 1.0 noborder
$panel0 << EOD
0 4 4 +0.0%
1 7 8 -12.5%
EOD
$panel1 << EOD
0 7 6 +16.7%
1 12 12 +0.0%
EOD
$panel2 << EOD
0 1 2 -50.0%
1 6 0 -
EOD
set multiplot
set label 1 'Predicted against measured: simulated, 65,536 tokens, causal, train, on toy' at screen 0.02,0.965714 left font ',17' textcolor '#222222'
set label 2 'Error of the step over 2 pairs: median 7.5%, 90th percentile 9.5%, worst +10.0% (pair 1), bias +2.5%' at screen 0.02,0.933333 left font ',13' textcolor '#666666'
set key at screen 0.02,0.91619 left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '#222222'
set xrange [0:1]
set yrange [0:1]
unset border
unset tics
plot NaN notitle, \
    keyentry with boxes fillcolor '#0072B2' title 'predicted', \
    keyentry with boxes fillcolor '#E69F00' title 'measured'
unset label 1
unset label 2
unset key
set border 1
set tics
set tics nomirror out scale 0.5 textcolor '#222222'
set lmargin at screen 0.06
set rmargin at screen 0.97
set xrange [-2.5:3.5]
set tmargin at screen 0.819048
set bmargin at screen 0.619048
set label 3 'Forward (ms)' at graph 0, graph 1 offset 0,1 left font ',14' textcolor '#222222'
unset xtics
set ytics 0,2
set format y '%.0f'
set yrange [0:9.2]
plot $panel0 using ($1-0.2):2:(0.36) with boxes fillcolor '#0072B2' notitle, \
    $panel0 using ($1+0.2):3:(0.36) with boxes fillcolor '#E69F00' notitle, \
    $panel0 using 1:($2>$3?$2:$3):4 with labels font ',11' offset 0,0.6 textcolor '#666666' notitle
set tmargin at screen 0.561905
set bmargin at screen 0.361905
set label 3 'Backward (ms)' at graph 0, graph 1 offset 0,1 left font ',14' textcolor '#222222'
unset xtics
set ytics 0,5
set format y '%.0f'
set yrange [0:13.8]
plot $panel1 using ($1-0.2):2:(0.36) with boxes fillcolor '#0072B2' notitle, \
    $panel1 using ($1+0.2):3:(0.36) with boxes fillcolor '#E69F00' notitle, \
    $panel1 using 1:($2>$3?$2:$3):4 with labels font ',11' offset 0,0.6 textcolor '#666666' notitle
set tmargin at screen 0.304762
set bmargin at screen 0.104762
set label 3 'Exposed communication (ms)' at graph 0, graph 1 offset 0,1 left font ',14' textcolor '#222222'
set xtics ('1: cp 2, ring' 0, '2: cp 4, all-gather' 1) nomirror scale 0
set ytics 0,2
set format y '%.0f'
set yrange [0:6.9]
plot $panel2 using ($1-0.2):2:(0.36) with boxes fillcolor '#0072B2' notitle, \
    $panel2 using ($1+0.2):3:(0.36) with boxes fillcolor '#E69F00' notitle, \
    $panel2 using 1:($2>$3?$2:$3):4 with labels font ',11' offset 0,0.6 textcolor '#666666' notitle
unset multiplot
unset output
