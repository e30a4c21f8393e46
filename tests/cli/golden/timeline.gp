# gnuplot 5.4 or later
reset
set encoding utf8
set terminal pngcairo size 1600,440 font 'DejaVu Sans,13' background '#ffffff' noenhanced
set output 'out.png'
set border 3 linecolor '#666666' linewidth 1
set tics nomirror out scale 0.5 textcolor '#222222'
set grid y linecolor '#DDDDDD' linewidth 1 linetype 1
set style fill solid 1.0 noborder
set label 1 'custom bf16, 2,048 tokens, causal mask, train, cp 2, ring, contiguous, on toy' at screen 0.02,0.918182 left font ',17' textcolor '#222222'
set label 2 'Step 86.42 us; on its critical rank 1: compute 74.94 us, exposed communication 11.49 us (13.3%), idle 0.000 ms' at screen 0.02,0.840909 left font ',13' textcolor '#666666'
set key at screen 0.02,0.8 left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '#222222'
set lmargin at screen 0.065
set rmargin at screen 0.98
set tmargin at screen 0.627273
set bmargin at screen 0.159091
unset grid
set grid x front linecolor '#bbbbbb' linewidth 0.5 dashtype 3
set border 1
set xrange [0:86.4222438]
set yrange [2:0]
set xlabel 'time in the step (us)'
set ytics ('rank 0' 0.5, 'rank 1' 1.5)
set xtics 0,10
set format x '%.0f'
set ytics scale 0
set arrow 1 from first 22.0587622, graph 0 to first 22.0587622, graph 1 nohead front linecolor '#222222' linewidth 1.2 dashtype 2
set label 3 'forward' at first 21.5402288, graph 1 offset 0,0.7 right textcolor '#666666'
set label 4 'backward' at first 22.5772957, graph 1 offset 0,0.7 left textcolor '#666666'
$paint3 << EOD
0 86.4222438 0.1 0.51
0 86.4222438 1.1 1.51
EOD
$paint0 << EOD
0 5.373952 0.1 0.51
23.12372 36.5586 0.1 0.51
0 5.373952 1.1 1.51
6.995968 17.73339 1.1 1.51
23.12372 36.5586 1.1 1.51
39.70433 66.54788 1.1 1.51
EOD
$paint1 << EOD
22.05876 23.12372 0.1 0.51
36.5586 38.13147 0.1 0.51
83.27652 84.84938 0.1 0.51
5.373952 6.995968 1.1 1.51
17.73339 23.12372 1.1 1.51
36.5586 39.70433 1.1 1.51
66.54788 71.79076 1.1 1.51
83.27652 86.42224 1.1 1.51
EOD
$paint2 << EOD
5.373952 6.24288 0.1 0.51
39.70433 51.19009 0.1 0.51
71.79076 83.27652 0.1 0.51
71.79076 83.27652 1.1 1.51
EOD
$paint4 << EOD
0 6.24288 0.54 0.71
22.05876 28.30164 0.54 0.71
0 6.24288 1.54 1.71
22.05876 28.30164 1.54 1.71
EOD
$paint5 << EOD
39.70433 51.19009 0.73 0.9
71.79076 83.27652 0.73 0.9
39.70433 51.19009 1.73 1.9
71.79076 83.27652 1.73 1.9
EOD
plot $paint3 using 1:3:1:2:3:4 with boxxyerror fillcolor '#DDDDDD' notitle, \
    $paint0 using 1:3:1:2:3:4 with boxxyerror fillcolor '#0072B2' title 'attention', \
    $paint1 using 1:3:1:2:3:4 with boxxyerror fillcolor '#56B4E9' title 'merge and other kernels', \
    $paint2 using 1:3:1:2:3:4 with boxxyerror fillcolor '#D55E00' title 'exposed communication', \
    keyentry with boxes fillcolor '#DDDDDD' title 'idle', \
    $paint4 using 1:3:1:2:3:4 with boxxyerror fillcolor '#009E73' title 'transfer of K, V', \
    $paint5 using 1:3:1:2:3:4 with boxxyerror fillcolor '#CC79A7' title 'transfer of dK, dV'
unset output
